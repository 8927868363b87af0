KERNEL void read_bytes(const tensor *from, int pixel, int32_t *restrict row)
{
    const uint8_t *restrict bytes = (const uint8_t *)data_of(from) + pixel * from->pixel_step;
    int channels = from->channels, step = from->channel_step;
    int32_t sign = from->is_signed ? 128 : 0; /* a byte from 128 on is 256 less */
    for (int channel = 0; channel < channels; channel++)
        row[channel] = (bytes[channel * step] ^ sign) - sign;
}
