/* Real numbers to codes: factor x value / step, rounded. */
static void row_to_codes(const row_operation *how, int32_t *row, int channels, int pixel)
{
    (void)pixel;
    for (int channel = 0; channel < channels; channel++) {
        float scaled = as_value(row[channel]) * how->factor;
        row[channel] = nearest_code(scaled / how->step, how->low, how->high);
    }
}
