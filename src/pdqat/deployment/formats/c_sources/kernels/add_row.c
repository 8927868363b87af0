/* Whole numbers plus others. */
KERNEL void add_row(int32_t *restrict row, const int32_t *restrict other, int channels)
{
    for (int channel = 0; channel < channels; channel++)
        row[channel] += other[channel];
}
