KERNEL float real_at(const tensor *from, int pixel, int channel)
{
    float value;
    const uint8_t *at = (const uint8_t *)data_of(from) + 4 * (pixel * from->pixel_step + channel * from->channel_step);
    memcpy(&value, at, sizeof value);
    return value;
}
