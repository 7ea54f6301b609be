package scriptedmodel

// The short forms of the script: one text or one element instead of a mapping
// or a list. Each method tries the form that the node has and leaves all checks
// to the decoder.

func (t *Texts) UnmarshalYAML(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*t = Texts{one}
		return nil
	}
	return decode((*[]string)(t))
}

func (s *Steps) UnmarshalYAML(decode func(any) error) error {
	if isList(decode) {
		return decode((*[]Step)(s))
	}
	var one Step
	err := decode(&one)
	*s = Steps{one}
	return err
}

func (s *Step) UnmarshalYAML(decode func(any) error) error {
	if isList(decode) {
		return decode((*[]Action)(s))
	}
	var one Action
	err := decode(&one)
	*s = Step{one}
	return err
}

func (t *Text) UnmarshalYAML(decode func(any) error) error {
	if decode(&t.Text) == nil {
		return nil
	}
	type long Text
	return decode((*long)(t))
}

func (c *Command) UnmarshalYAML(decode func(any) error) error {
	if decode(&c.Cmd) == nil {
		return nil
	}
	type long Command
	return decode((*long)(c))
}

func (g *Gate) UnmarshalYAML(decode func(any) error) error {
	if decode(&g.Gate) == nil {
		return nil
	}
	type long Gate
	return decode((*long)(g))
}

func (f *Failure) UnmarshalYAML(decode func(any) error) error {
	var kind string
	if decode(&kind) == nil {
		f.Kind = Kind(kind)
		return nil
	}
	type long Failure
	return decode((*long)(f))
}

func isList(decode func(any) error) bool {
	var list []any
	return decode(&list) == nil
}
