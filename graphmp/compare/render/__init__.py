"""The forms of a diff that people and programs read, a module each."""
