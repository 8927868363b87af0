static void write_bytes(const tensor *to, int pixel, const int32_t *row)
{
    uint8_t *bytes = (uint8_t *)to->data + pixel * to->pixel_step;
    for (int channel = 0; channel < to->channels; channel++)
        bytes[channel] = (uint8_t)((uint32_t)row[channel] & 255u);
}
