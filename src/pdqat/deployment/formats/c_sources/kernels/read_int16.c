KERNEL void read_int16(const tensor *from, int pixel, int32_t *row)
{
    const uint8_t *bytes = (const uint8_t *)data_of(from) + 2 * pixel * from->pixel_step;
    for (int channel = 0; channel < from->channels; channel++) {
        int16_t number;
        memcpy(&number, bytes + 2 * channel, sizeof number);
        row[channel] = number;
    }
}
