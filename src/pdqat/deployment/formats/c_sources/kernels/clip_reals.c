/* Real numbers within limits. */
KERNEL void clip_reals(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++) {
        float value = as_value(row[channel]);
        row[channel] = as_bits(value < how->least ? how->least : value > how->most ? how->most : value);
    }
}
