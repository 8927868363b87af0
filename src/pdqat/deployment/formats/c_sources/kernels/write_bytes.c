KERNEL void write_bytes(const tensor *to, int pixel, const int32_t *restrict row)
{
    uint8_t *restrict bytes = (uint8_t *)data_of(to) + pixel * to->pixel_step;
    int channels = to->channels;
    for (int channel = 0; channel < channels; channel++)
        bytes[channel] = (uint8_t)((uint32_t)row[channel] & 255u);
}
