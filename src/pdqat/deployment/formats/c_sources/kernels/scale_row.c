/* A batch norm: scale x value + shift. */
KERNEL void scale_row(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++) {
        float scaled = as_value(row[channel]) * how->scales[channel];
        row[channel] = as_bits(scaled + how->biases[channel]);
    }
}
