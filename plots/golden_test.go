package plots

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden images anew")

// golden are few and small: one with bands and a limit, one of bars on a dark page, one map.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		kind string
		dark bool
	}{{"bandwidth", false}, {"ttft", true}, {"heat", false}} {
		t.Run(c.kind, func(t *testing.T) {
			for _, d := range everyKind(t, Options{Dark: c.dark, Width: 12}) {
				if d.name != c.kind {
					continue
				}
				var got bytes.Buffer
				if err := d.f.Write(&got, PNG); err != nil {
					t.Fatal(err)
				}
				compareImage(t, filepath.Join("testdata", c.kind+".png"), got.Bytes())
			}
		})
	}
}

// compareImage fails where more than a few pixels differ visibly, and leaves the new image and one that shows the differences in
// red. Machines round floating-point numbers apart, so bytes are not compared.
func compareImage(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	have, err := png.Decode(bytes.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	bounds := want.Bounds().Union(have.Bounds())
	diff := image.NewNRGBA(bounds)
	differ := 0
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			a, b := color.GrayModel.Convert(want.At(x, y)).(color.Gray), color.GrayModel.Convert(have.At(x, y)).(color.Gray)
			diff.Set(x, y, color.Gray{Y: 128 + a.Y/2})
			if d := int(a.Y) - int(b.Y); d > 40 || d < -40 {
				differ++
				diff.Set(x, y, color.NRGBA{R: 255, A: 255})
			}
		}
	}
	if want.Bounds() == have.Bounds() && differ <= bounds.Dx()*bounds.Dy()/5000 {
		return
	}
	dir, err := os.MkdirTemp("", "plots")
	if err != nil {
		t.Fatal(err)
	}
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, diff); err != nil {
		t.Fatal(err)
	}
	stem := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(stem, got, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stem+".diff.png", drawn.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s: %d pixels differ (%v, now %v); the new image is %s, the differences are red in %s.diff.png; -update accepts it", name, differ, want.Bounds().Max, have.Bounds().Max, stem, stem)
}
