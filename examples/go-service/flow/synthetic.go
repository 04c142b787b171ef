package flow

import "encoding/binary"

// Synthetic makes a report of n connections, the same for the same seed.
func Synthetic(seed uint64, n int) []byte {
	var report []byte
	state := seed
	next := func() uint64 {
		state += 0x9e3779b97f4a7c15
		z := (state ^ state>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	for i := 0; i < n; i++ {
		start := len(report)
		report = append(report, 0, 0)
		number := func(kind byte, value uint64) {
			at := len(report)
			report = append(report, kind, 0)
			for ; value > 0; value >>= 8 {
				report = append(report, byte(value))
			}
			report[at+1] = byte(len(report) - at - 2)
		}
		text := func(kind byte, value string) {
			report = append(report, kind, byte(len(value)))
			report = append(report, value...)
		}
		first := byte(10)
		if next()%8 == 0 {
			first = 127
		}
		number(1, 1_700_000_000_000_000_000+next()%1_000_000_000)
		report = append(report, 2, 4, first, byte(next()), byte(next()), 1)
		report = append(report, 3, 4, first, byte(next()), byte(next()), 2)
		number(4, 1024+next()%60000)
		number(5, 443)
		number(6, 1+next()%6)
		number(7, next()%200_000)
		number(8, next()%20_000)
		number(9, next()%1_000_000)
		number(10, next()%4)
		number(11, next()%(1<<40))
		number(12, next()%(1<<36))
		text(13, [...]string{"eth0", "eth0", "lo"}[next()%3])
		text(14, [...]string{"cubic", "cubic", "bbr"}[next()%3])
		binary.LittleEndian.PutUint16(report[start:], uint16(len(report)-start-2))
	}
	return report
}
