/* Whole numbers of a step to real numbers. */
KERNEL void row_to_real(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++)
        row[channel] = as_bits((float)row[channel] * how->step);
}
