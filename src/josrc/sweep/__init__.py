"""Many runs that differ in their settings, as one plan."""
