/* Codes by a line: (slope x sum + start) / 2^shift above the lowest code, rounded down. */
KERNEL void by_line(const row_operation *how, int32_t *restrict row, int channels)
{
    const int32_t *slopes = how->slopes;
    const int64_t *starts = how->starts;
    const uint8_t *shifts = how->shifts;
    int32_t low = how->low;
    int64_t most = how->high - low;
    for (int channel = 0; channel < channels; channel++) {
        int64_t above = (int64_t)slopes[channel] * row[channel] + starts[channel];
        int64_t code = (above < 0 ? 0 : above) >> shifts[channel];
        row[channel] = low + (int32_t)(code < most ? code : most);
    }
}
