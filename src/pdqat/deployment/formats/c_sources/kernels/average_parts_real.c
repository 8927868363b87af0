/* The means of as many parts of the image as there are pixels in the result. */
KERNEL void average_parts_real(const tensor *from, const tensor *to)
{
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int y = pixel / to->width, x = pixel % to->width;
        int top = y * from->height / to->height, bottom = ((y + 1) * from->height + to->height - 1) / to->height;
        int left = x * from->width / to->width, right = ((x + 1) * from->width + to->width - 1) / to->width;
        int count = (bottom - top) * (right - left);
        for (int channel = 0; channel < to->channels; channel++)
            put_real(to, pixel, channel, mean_of(from, channel, top, bottom, left, right, count));
    }
}
