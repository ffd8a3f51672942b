"""What a daemon counts and says about itself."""
