package protocol

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Money is an amount in millionths of the currency in which the workers' configuration gives
// prices. In JSON and on the command line it is a decimal, such as "2.50".
type Money int64

// Unit is one of the currency.
const Unit Money = 1_000_000

// MostMoney bounds the amounts that people give.
const MostMoney = 1_000_000_000 * Unit

// ParseMoney reads a decimal that is not negative and has at most six decimal places.
func ParseMoney(text string) (Money, error) {
	whole, part, point := strings.Cut(text, ".")
	bad := fmt.Errorf("%.40q is no amount such as 5 or 2.50", text)
	if whole == "" || point && part == "" || len(part) > 6 || strings.Trim(whole+part, "0123456789") != "" {
		return 0, bad
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > int64(MostMoney/Unit) {
		return 0, fmt.Errorf("%.40q is more than %s, which is the most", text, MostMoney)
	}
	m := Money(n) * Unit
	if part != "" {
		n, err := strconv.ParseInt(part+strings.Repeat("0", 6-len(part)), 10, 64)
		if err != nil {
			return 0, bad
		}
		m += Money(n)
	}
	return min(m, MostMoney), nil
}

// Cost returns the price of tokens, of which a million costs so many units, rounded up.
func Cost(tokens int64, million float64) Money {
	return Money(math.Ceil(min(max(0, float64(tokens)*million), float64(MostMoney))))
}

// String returns the decimal, with two decimal places or as many as it needs.
func (m Money) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	part := strings.TrimRight(fmt.Sprintf("%06d", m%Unit), "0")
	for len(part) < 2 {
		part += "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, m/Unit, part)
}

// MarshalText implements encoding.TextMarshaler.
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Money) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMoney(string(text))
	return err
}
