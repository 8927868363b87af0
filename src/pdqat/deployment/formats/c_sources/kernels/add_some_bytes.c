/* Whole numbers plus so many others that stand in bytes. */
KERNEL void add_some_bytes(const tensor *other, const uint8_t *restrict bytes, int32_t *restrict row, int count)
{
    const int8_t *restrict signed_bytes = (const int8_t *)bytes;
    int step = other->channel_step;
    if (other->is_signed)
        for (int channel = 0; channel < count; channel++)
            row[channel] += signed_bytes[channel * step];
    else
        for (int channel = 0; channel < count; channel++)
            row[channel] += bytes[channel * step];
}
