/* Sums times the divisor that their weights were divided by. */
KERNEL void multiply_row(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++)
        row[channel] *= how->divisor;
}
