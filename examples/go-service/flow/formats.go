package flow

import "strconv"

// Output is a Writer that gathers bytes.
type Output interface {
	Writer
	Bytes() []byte
	Reset()
}

// New gives an output of a format: "binary" or "json".
func New(format string) (Output, bool) {
	switch format {
	case "binary":
		return &Binary{}, true
	case "json":
		return &JSONLines{}, true
	}
	return nil, false
}

// Binary writes messages as protocol buffers do, each behind its length.
type Binary struct {
	out, message []byte
}

// Bytes gives what was written.
func (b *Binary) Bytes() []byte { return b.out }

// Reset forgets it.
func (b *Binary) Reset() { b.out = b.out[:0] }

// Begin implements Writer.
func (b *Binary) Begin() { b.message = b.message[:0] }

// End implements Writer.
func (b *Binary) End() {
	b.out = varint(b.out, uint64(len(b.message)))
	b.out = append(b.out, b.message...)
}

// Uint implements Writer.
func (b *Binary) Uint(field int, _ string, value uint64) {
	if value == 0 {
		return
	}
	b.message = varint(b.message, uint64(field)<<3)
	b.message = varint(b.message, value)
}

// Text implements Writer.
func (b *Binary) Text(field int, _ string, value string) {
	if value == "" {
		return
	}
	b.message = varint(b.message, uint64(field)<<3|2)
	b.message = varint(b.message, uint64(len(value)))
	b.message = append(b.message, value...)
}

// Address implements Writer.
func (b *Binary) Address(field int, _ string, value [4]byte) {
	b.message = varint(b.message, uint64(field)<<3|2)
	b.message = append(b.message, 4, value[0], value[1], value[2], value[3])
}

func varint(dst []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(dst, byte(v))
	case v < 1<<14:
		return append(dst, byte(v)|0x80, byte(v>>7))
	case v < 1<<21:
		return append(dst, byte(v)|0x80, byte(v>>7)|0x80, byte(v>>14))
	}
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// JSONLines writes an object a line.
type JSONLines struct {
	out   []byte
	comma bool
}

// Bytes gives what was written.
func (j *JSONLines) Bytes() []byte { return j.out }

// Reset forgets it.
func (j *JSONLines) Reset() { j.out = j.out[:0] }

// Begin implements Writer.
func (j *JSONLines) Begin() {
	j.out = append(j.out, '{')
	j.comma = false
}

// End implements Writer.
func (j *JSONLines) End() { j.out = append(j.out, '}', '\n') }

func (j *JSONLines) name(name string) {
	if j.comma {
		j.out = append(j.out, ',')
	}
	j.comma = true
	j.out = append(j.out, '"')
	j.out = append(j.out, name...)
	j.out = append(j.out, '"', ':')
}

// Uint implements Writer.
func (j *JSONLines) Uint(_ int, name string, value uint64) {
	j.name(name)
	j.out = strconv.AppendUint(j.out, value, 10)
}

// Text implements Writer.
func (j *JSONLines) Text(_ int, name string, value string) {
	j.name(name)
	j.quoted(value)
}

func (j *JSONLines) quoted(value string) {
	const hex = "0123456789abcdef"
	j.out = append(j.out, '"')
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"' || c == '\\':
			j.out = append(j.out, '\\', c)
		case c < 0x20:
			j.out = append(j.out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			j.out = append(j.out, c)
		}
	}
	j.out = append(j.out, '"')
}

// Address implements Writer.
func (j *JSONLines) Address(_ int, name string, value [4]byte) {
	j.name(name)
	j.out = append(j.out, '"')
	for i, part := range value {
		if i > 0 {
			j.out = append(j.out, '.')
		}
		j.out = strconv.AppendUint(j.out, uint64(part), 10)
	}
	j.out = append(j.out, '"')
}
