/* Whole numbers plus those of a pixel of another tensor, which stand in bytes. Processors with vectors take them by
   sixteen, which a vector holds as whole numbers. */
KERNEL void add_bytes(const tensor *other, int pixel, int32_t *restrict row)
{
    const uint8_t *bytes = (const uint8_t *)data_of(other) + pixel * other->pixel_step;
    int first = 0, whole = MODEL_COPIES ? other->channels / 16 * 16 : 0;
    for (; first < whole; first += 16)
        add_some_bytes(other, bytes + first * other->channel_step, row + first, 16);
    add_some_bytes(other, bytes + first * other->channel_step, row + first, other->channels - first);
}
