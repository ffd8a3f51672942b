"""What is said about a plan: text, figures, pictures."""
