/* Real numbers: scale x sum + bias. */
KERNEL void as_real(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++) {
        float scaled = (float)(how->divisor * row[channel]) * how->scales[channel];
        row[channel] = as_bits(scaled + how->biases[channel]);
    }
}
