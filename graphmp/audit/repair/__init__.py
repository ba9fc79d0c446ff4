"""The search for nodes that must stay float32."""
