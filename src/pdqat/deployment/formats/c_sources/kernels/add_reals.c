/* Real numbers plus those of a pixel of another tensor. */
KERNEL void add_reals(int32_t *row, const tensor *other, int pixel)
{
    for (int channel = 0; channel < other->channels; channel++)
        row[channel] = as_bits(as_value(row[channel]) + real_at(other, pixel, channel));
}
