"""What the stand-ins for Pulumi's plugins share: the protocol, property values, comparing, serving."""
