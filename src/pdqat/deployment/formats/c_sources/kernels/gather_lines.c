/* What a row of windows sees of an image of bit planes. Of each plane there are lines with a word for every column of
   the image: a column's channels, row by row, fill the words of as many lines as they need. Behind all lines stands
   the sum of every column's codes. Padding is code 0. */
KERNEL void gather_lines(const convolution *layer, const tensor *from, const tensor *lines, int window_row)
{
    int words = plane_words(from->channels), step = words * from->planes, width = lines->width;
    int inside = width - layer->pad_x < from->width ? width - layer->pad_x : from->width;
    uint32_t *all = (uint32_t *)data_of(lines);
    memset(all, 0, (size_t)(lines->planes * lines->channels * width) * sizeof *all);
    for (int row = 0; row < layer->kernel_height; row++) {
        int y = window_row * layer->stride_y - layer->pad_y + row * layer->dilation_y;
        if (y < 0 || y >= from->height)
            continue;
        const uint32_t *pixel = (const uint32_t *)data_of(from) + y * from->width * step;
        for (int part = 0; part < step; part++) {
            int first = part % words * 32, bit = row * from->channels + first, left = from->channels - first;
            uint32_t *line = all + (part / words * lines->channels + bit / 32) * width + layer->pad_x;
            add_shifted(line, pixel + part, step, inside, bit % 32, 0);
            if (bit % 32 + (left < 32 ? left : 32) > 32)
                add_shifted(line + width, pixel + part, step, inside, 0, 32 - bit % 32);
        }
    }
    if (layer->start != 0)
        sum_columns(lines, all, (int32_t *)all + lines->planes * lines->channels * width);
}
