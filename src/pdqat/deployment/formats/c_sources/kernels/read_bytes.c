static void read_bytes(const tensor *from, int pixel, int32_t *row)
{
    const uint8_t *bytes = (const uint8_t *)from->data + pixel * from->pixel_step;
    for (int channel = 0; channel < from->channels; channel++) {
        int32_t code = bytes[channel * from->channel_step];
        row[channel] = from->is_signed && code > 127 ? code - 256 : code;
    }
}
