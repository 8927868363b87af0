/* Whole numbers within limits. */
KERNEL void clip_row(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++)
        row[channel] = row[channel] < how->low ? how->low : row[channel] > how->high ? how->high : row[channel];
}
