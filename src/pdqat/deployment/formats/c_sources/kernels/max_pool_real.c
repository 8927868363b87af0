/* The largest number of each window. */
KERNEL void max_pool_real(const windows *pool, const tensor *from, const tensor *to)
{
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * pool->stride_y - pool->pad_y;
        int left = pixel % to->width * pool->stride_x - pool->pad_x;
        for (int channel = 0; channel < to->channels; channel++) {
            float largest = 0.0f;
            int is_first = 1;
            for (int y = top; y < top + pool->height * pool->dilation_y; y += pool->dilation_y)
                for (int x = left; x < left + pool->width * pool->dilation_x; x += pool->dilation_x) {
                    float value;
                    if (y < 0 || y >= from->height || x < 0 || x >= from->width)
                        continue;
                    value = real_at(from, y * from->width + x, channel);
                    if (is_first || value > largest)
                        largest = value;
                    is_first = 0;
                }
            put_real(to, pixel, channel, largest);
        }
    }
}
