/* Scores in whole numbers of a unit: (slope x sum + start) / 2^shift, rounded down. The start is too large by
   2^(31 + shift), so that what is shifted is never negative. */
KERNEL void as_scores(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++) {
        int64_t above = (int64_t)how->slopes[channel] * row[channel] + how->starts[channel];
        row[channel] = (int32_t)((above >> how->shifts[channel]) - ((int64_t)1 << 31));
    }
}
