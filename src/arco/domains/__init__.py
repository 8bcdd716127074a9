"""What the product knows: events, tables and stages, one folder a domain, each over one log."""
