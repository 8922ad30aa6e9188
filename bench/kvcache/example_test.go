package kvcache_test

import (
	"fmt"

	"hopbench/bench/kvcache"
)

// What one request of Llama-3.1-70B moves when prefill runs on 2 GPUs and decode on 8.
func Example() {
	m, err := kvcache.Load("llama-3.1-70b", kvcache.LoadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := m.Layout(kvcache.Options{Tokens: 8192, Prefill: kvcache.Parallel{TP: 2}, Decode: kvcache.Parallel{TP: 8}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holds", l.RequestBytes, "B; a decode rank receives", l.Descriptors)
	fmt.Printf("%s NIC %d binds with %d B\n", l.Binding.Side, l.Binding.NIC, l.Binding.Bytes)

	p, err := l.Pieces(kvcache.PieceOptions{Rank: 3, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(p.Requests[0]), "pieces in pools of", p.LocalPoolBytes, "and", p.RemotePoolBytes, "B")
	// Output:
	// holds 2684354560 B; a decode rank receives [{4096 81920}]
	// prefill NIC 0 binds with 1342177280 B
	// 81920 pieces in pools of 335544320 and 1342177280 B
}
