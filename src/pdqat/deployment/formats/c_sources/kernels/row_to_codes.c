/* Real numbers to codes: factor x value / step, rounded. */
KERNEL void row_to_codes(const row_operation *how, int32_t *row, int channels)
{
    for (int channel = 0; channel < channels; channel++) {
        float scaled = as_value(row[channel]) * how->factor;
        row[channel] = nearest_code(scaled / how->step, how->low, how->high);
    }
}
