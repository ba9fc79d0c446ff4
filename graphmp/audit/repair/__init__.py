"""The search for nodes that have to stay float32."""
