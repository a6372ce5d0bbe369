package policy

// Unset is the consent where nobody has written anything.
const Unset = unset

// Written returns the consent that the rules for an effect's own verb give it,
// Unset where there are none.
func (c Consents) Written(e Effect) Consent { return c.written(e).Consent }
