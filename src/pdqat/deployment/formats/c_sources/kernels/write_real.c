KERNEL void write_real(const tensor *to, int pixel, const int32_t *row)
{
    for (int channel = 0; channel < to->channels; channel++)
        put_real(to, pixel, channel, as_value(row[channel]));
}
