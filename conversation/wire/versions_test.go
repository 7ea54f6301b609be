package wire

import "testing"

func TestTheTableOfVersionsIsSound(t *testing.T) {
	seen := map[Trait]bool{}
	for _, d := range Differences {
		if seen[d.Trait] || d.With == "" || d.Lack == "" {
			t.Errorf("%+v", d)
		}
		seen[d.Trait] = true
		for _, v := range []string{d.Without, d.Since, d.Gone} {
			if err := CheckVersion(v); v != "" && err != nil {
				t.Errorf("%s: %v", d.Trait, err)
			}
		}
		switch without, since := d.Without, d.Since; {
		case since == "" && (d.Gone == "" || without != ""), since != "" && without == "":
			t.Errorf("%s is since %q, was missing in %q, gone with %q", d.Trait, since, without, d.Gone)
		case since == "":
			if !Has(OldestVersion, d.Trait) || Has(d.Gone, d.Trait) {
				t.Errorf("%s is not gone with %s", d.Trait, d.Gone)
			}
		case Has(without, d.Trait) || !Has(since, d.Trait) || !Has(TestedVersion, d.Trait) || !Has("", d.Trait):
			t.Errorf("%s: %+v", d.Trait, d)
		}
	}
	if Has(TestedVersion, "no such trait") {
		t.Error("it has what nobody knows")
	}
	for i, v := range Tested[1:] {
		a, _ := Numbers(Tested[i])
		b, ok := Numbers(v)
		if !ok || !Older(a, b) {
			t.Errorf("%s stands behind %s", v, Tested[i])
		}
	}
	if Tested[len(Tested)-1] != TestedVersion || Tested[0] != OldestVersion {
		t.Errorf("tested: %q", Tested)
	}
}
