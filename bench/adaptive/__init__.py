"""Plans that change while queries run: static, adaptive and clairvoyant."""
