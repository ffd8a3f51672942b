"""What people and scripts see: words, tables, screens, JSON."""
