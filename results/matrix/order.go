package matrix

import "math"

// Order puts n hosts so that those with like figures to all others stand together, the slower ends of each group last. at gives the figure of a pair, false where
// there is none. Two hosts are as far apart as the mean difference of the logarithms of the figures that both have with the others; groups by the
// mean over their hosts (average linkage, joined along chains of nearest neighbours: Murtagh, The Computer Journal 26(4), 1983). lower says that less
// is better.
func Order(n int, at func(i, j int) (float64, bool), lower bool) []int {
	if n < 3 {
		out := make([]int, n)
		for i := range out {
			out[i] = i
		}
		return out
	}
	logs := make([]float64, n*n)
	mean := make([]float64, n) // of a host's figures as initiator and as target
	for i := range n {
		sum, count := 0.0, 0
		for j := range n {
			logs[i*n+j] = math.NaN()
			if v, ok := at(i, j); ok && v > 0 && i != j {
				logs[i*n+j] = math.Log(v)
			}
			for _, pair := range [][2]int{{i, j}, {j, i}} {
				if v, ok := at(pair[0], pair[1]); ok && v > 0 && i != j {
					sum, count = sum+math.Log(v), count+1
				}
			}
		}
		if count > 0 {
			mean[i] = sum / float64(count)
		}
	}
	d := apart(n, logs)
	root := link(n, d)
	sign := 1.0
	if lower {
		sign = -1
	}
	out := make([]int, 0, n)
	var walk func(t *tree)
	walk = func(t *tree) {
		if t.left == nil {
			out = append(out, t.leaf)
			return
		}
		a, b := t.left, t.right
		x, y := sign*a.mean(mean), sign*b.mean(mean)
		if y > x || y == x && b.least < a.least {
			a, b = b, a
		}
		walk(a)
		walk(b)
	}
	walk(root)
	return out
}

// apart is how far any two hosts are from each other.
func apart(n int, logs []float64) []float64 {
	d := make([]float64, n*n)
	turned := make([]float64, n*n)
	for i := range n {
		for j := range n {
			turned[j*n+i] = logs[i*n+j]
		}
	}
	for i := range n {
		for j := range i {
			sum, count := 0.0, 0
			for _, m := range [][]float64{logs, turned} {
				a, b := m[i*n:(i+1)*n], m[j*n:(j+1)*n]
				for k := range a {
					if k == i || k == j {
						continue
					}
					if v := math.Abs(a[k] - b[k]); v == v {
						sum, count = sum+v, count+1
					}
				}
			}
			v := 1.0 // nothing in common
			if count > 0 {
				v = sum / float64(count)
			}
			d[i*n+j], d[j*n+i] = v, v
		}
	}
	return d
}

// tree is a group of hosts, or one.
type tree struct {
	left, right *tree
	leaf        int
	size, least int // hosts, and the smallest of their numbers
}

func (t *tree) mean(of []float64) float64 {
	if t.left == nil {
		return of[t.leaf]
	}
	return (t.left.mean(of)*float64(t.left.size) + t.right.mean(of)*float64(t.right.size)) / float64(t.size)
}

// link joins the groups that are each other's nearest until one is left. d is used up.
func link(n int, d []float64) *tree {
	groups := make([]*tree, n)
	for i := range groups {
		groups[i] = &tree{leaf: i, size: 1, least: i}
	}
	var chain []int
	for left := n; left > 1; {
		if len(chain) == 0 {
			for i, g := range groups {
				if g != nil {
					chain = append(chain, i)
					break
				}
			}
		}
		at := chain[len(chain)-1]
		before := -1
		if len(chain) > 1 {
			before = chain[len(chain)-2]
		}
		best, least := before, math.Inf(1)
		if before >= 0 {
			least = d[at*n+before]
		}
		for i, g := range groups {
			if g != nil && i != at && d[at*n+i] < least {
				best, least = i, d[at*n+i]
			}
		}
		if best != before {
			chain = append(chain, best)
			continue
		}
		a, b := groups[before], groups[at]
		chain = chain[:len(chain)-2]
		for i, g := range groups {
			if g == nil || i == at || i == before {
				continue
			}
			v := (d[before*n+i]*float64(a.size) + d[at*n+i]*float64(b.size)) / float64(a.size+b.size)
			d[before*n+i], d[i*n+before] = v, v
		}
		groups[before] = &tree{left: a, right: b, size: a.size + b.size, least: min(a.least, b.least)}
		groups[at] = nil
		left--
	}
	for _, g := range groups {
		if g != nil {
			return g
		}
	}
	return nil
}

// Clustered is the layer's hosts in the order of Order.
func (l *Layer) Clustered() []string {
	hosts := l.Hosts()
	ids := l.ids(hosts)
	out := make([]string, 0, len(hosts))
	for _, i := range Order(len(hosts), func(i, j int) (float64, bool) {
		p := l.at(ids[i], ids[j])
		return p.value, p.state == measured
	}, l.Latency()) {
		out = append(out, hosts[i])
	}
	return out
}

func (l *Layer) ids(hosts []string) []int {
	out := make([]int, len(hosts))
	for i, h := range hosts {
		out[i] = l.mesh.id[h]
	}
	return out
}

func (l *Layer) at(from, to int) place {
	if from >= len(l.rows) || to >= len(l.rows[from]) {
		return place{}
	}
	return l.rows[from][to]
}
