KERNEL void put_real(const tensor *to, int pixel, int channel, float value)
{
    uint8_t *at = (uint8_t *)data_of(to) + 4 * (pixel * to->pixel_step + channel * to->channel_step);
    memcpy(at, &value, sizeof value);
}
