KERNEL void read_real(const tensor *from, int pixel, int32_t *row)
{
    for (int channel = 0; channel < from->channels; channel++)
        row[channel] = as_bits(real_at(from, pixel, channel));
}
