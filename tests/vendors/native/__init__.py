"""Programs that know nothing of Quipu: each looks into a vendor's store with the vendor's own API.

Run in the vendor's environment with a JSON object of where things are; prints what it lists and what it finds.
"""
