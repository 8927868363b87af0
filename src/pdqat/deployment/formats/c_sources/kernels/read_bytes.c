KERNEL void read_bytes(const tensor *from, int pixel, int32_t *restrict row)
{
    const uint8_t *restrict bytes = (const uint8_t *)data_of(from) + pixel * from->pixel_step;
    const int8_t *restrict signed_bytes = (const int8_t *)bytes;
    int channels = from->channels, step = from->channel_step;
    if (from->is_signed)
        for (int channel = 0; channel < channels; channel++)
            row[channel] = signed_bytes[channel * step];
    else
        for (int channel = 0; channel < channels; channel++)
            row[channel] = bytes[channel * step];
}
