/* Codes by a line: (slope x sum + start) / 2^shift above the lowest code, rounded down. */
static void by_line(const row_operation *how, int32_t *row, int channels, int pixel)
{
    (void)pixel;
    for (int channel = 0; channel < channels; channel++) {
        int64_t above = (int64_t)how->slopes[channel] * row[channel] + how->starts[channel];
        int64_t code = above < 0 ? 0 : above >> how->shifts[channel];
        row[channel] = code > how->high - how->low ? how->high : how->low + (int32_t)code;
    }
}
