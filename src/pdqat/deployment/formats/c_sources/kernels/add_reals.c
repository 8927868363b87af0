/* Real numbers plus those of another tensor. */
static void add_reals(const row_operation *how, int32_t *row, int channels, int pixel)
{
    for (int channel = 0; channel < channels; channel++)
        row[channel] = as_bits(as_value(row[channel]) + real_at(how->other, pixel, channel));
}
