/* Codes as float32 rounds slope / 2^shift x (divisor x sum + start), in integers: the sum is rounded to 24 bits, then
   the product, then the code, halves to even. */
KERNEL void by_float32(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++) {
        int64_t sum = (int64_t)how->divisor * row[channel] + how->starts[channel];
        uint64_t size = in_24_bits((uint64_t)(sum < 0 ? -sum : sum));
        uint64_t code = half_to_even(in_24_bits(size * (uint32_t)how->slopes[channel]), how->shifts[channel]);
        int64_t signed_code = sum < 0 ? -(int64_t)code : (int64_t)code;
        row[channel] = signed_code < how->low ? how->low : signed_code > how->high ? how->high : (int32_t)signed_code;
    }
}
