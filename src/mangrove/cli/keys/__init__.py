"""Commands about keys: making, handing out, replacing, taking back."""
