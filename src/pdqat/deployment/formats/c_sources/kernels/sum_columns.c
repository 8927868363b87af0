/* The sum of the codes of every column of lines. */
KERNEL void sum_columns(const tensor *lines, const uint32_t *restrict words, int32_t *restrict sums)
{
    memset(sums, 0, (size_t)lines->width * sizeof *sums);
    for (int line = 0; line < lines->planes * lines->channels; line++, words += lines->width) {
        int32_t place = place_of(lines, line / lines->channels);
        IN_VECTORS
        for (int x = 0; x < lines->width; x++)
            sums[x] += place * popcount(words[x]);
    }
}
