/* Codes by a line that 32 bits hold: (slope x sum + start) / 2^shift above the lowest code, rounded down. */
KERNEL void by_short_line(const row_operation *how, int32_t *restrict row, int channels)
{
    const int32_t *slopes = how->slopes, *starts = how->short_starts;
    int32_t low = how->low, most = how->high - low;
    int shift = how->shift;
    IN_VECTORS
    for (int channel = 0; channel < channels; channel++) {
        int32_t above = slopes[channel] * row[channel] + starts[channel];
        int32_t code = (above < 0 ? 0 : above) >> shift;
        row[channel] = low + (code < most ? code : most);
    }
}
