"""Copies that a site keeps of another site's window: one module per kind, each with an owner and a holder half."""
